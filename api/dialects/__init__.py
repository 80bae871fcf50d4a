"""APIs for the clients of other memory systems: their routes and shapes on the services of mnemolog."""
