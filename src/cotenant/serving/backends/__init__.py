"""Other servers behind our admission: we decide who goes when, they execute."""
