package posthaste

// ServerUser owns the messages that a server sends on its own account, to notify its
// operator something. No token names it, so no publisher makes or sees one of them.
const ServerUser = "posthaste:server"
