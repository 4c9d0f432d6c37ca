"""What measured times say about a request: the host's part and the device's."""
