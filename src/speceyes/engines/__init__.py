"""Model servers: one client for all of them, what they send, what they can do, and two of our own."""
