"""The agent over the Agent Client Protocol, for editors that speak it."""
