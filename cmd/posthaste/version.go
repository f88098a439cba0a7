package main

import (
	"fmt"
	"runtime"

	"posthaste/internal/app"
)

// versionCommand prints the version and what it was built with.
type versionCommand struct{}

// Run prints one line.
func (versionCommand) Run(t terminal) error {
	_, err := fmt.Fprintf(t.Out, "posthaste %s %s %s/%s\n", app.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
