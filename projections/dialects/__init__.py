"""How what the clients of other memory systems say is kept here; shared by every door that speaks their dialect."""
