"""The standing tenants files and the answers of every verb about them."""
