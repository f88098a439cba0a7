package cli

import (
	"runtime"

	"github.com/alecthomas/kong"

	"posthaste/internal/app"
)

// versionCommand prints the version and what it was built with.
type versionCommand struct {
	oneOutput
}

// Run prints one line.
func (c versionCommand) Run(t terminal) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return writeResult(t, c.Output, map[string]string{"version": app.Version, "go": runtime.Version(), "platform": platform},
		"posthaste %s %s %s", app.Version, runtime.Version(), platform)
}

// versionFlag is what people try first: --version prints what the command version does.
type versionFlag bool

// BeforeReset ends the program: a command need not follow.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	err := versionCommand{}.Run(terminal{app.Stdout, app.Stderr})
	app.Exit(exitOK)
	return err
}
