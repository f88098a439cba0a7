//go:build !windows

package cli

import (
	"os/signal"
	"syscall"
)

// keepPrivate lets no other user read what this program creates.
func keepPrivate() { syscall.Umask(0o077) }

// dontStopForTerminal makes reading from the terminal in the background an error. It would
// stop the program.
func dontStopForTerminal() { signal.Ignore(syscall.SIGTTIN) }
