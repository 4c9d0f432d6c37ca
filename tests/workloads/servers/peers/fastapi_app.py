"""A FastAPI application: `fastapi_app.py PORT`."""

import sys

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/health")
def health() -> dict[str, str]:
    return {"status": "ready"}


@app.post("/predict")
def predict(asked: dict[str, list[float]]) -> dict[str, float]:
    return {"sum": sum(asked["numbers"])}


uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
