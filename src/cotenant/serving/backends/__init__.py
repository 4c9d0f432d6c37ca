"""Other servers behind our admission: we order the requests, they execute them."""
