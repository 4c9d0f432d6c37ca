"""Workers in processes of their own: tensors through shared memory, control through a socket, restarts."""
