"""What plans are made from: devices, runs, served traffic, tenants files. Here planning opens devices and files."""
