"""How promising each link is. One protocol, several ways; pure."""
