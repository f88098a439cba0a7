package cli

// keepPrivate does nothing: directories of a user are private there.
func keepPrivate() {}

// dontStopForTerminal does nothing: no program is stopped there.
func dontStopForTerminal() {}
