"""Workers in separate processes: tensors through shared memory, control through a socket, restarts."""
