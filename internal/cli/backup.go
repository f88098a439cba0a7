package cli

import (
	"cmp"
	"posthaste"
	"posthaste/internal/app"
)

// backupCommand copies a data directory, of a running server too.
type backupCommand struct {
	Data string `env:"-" placeholder:"DIR" required:"" help:"Data directory to back up. The server may be running and is not interrupted."`
	To   string `env:"-" placeholder:"DIR" required:"" help:"Directory to create; it must not exist or must be empty. On the same file system, table files are hard-linked instead of copied."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *backupCommand) Validate() error {
	return cmp.Or(named("data", c.Data), named("to", c.To))
}

// named returns an error unless a directory is given.
func named(name, directory string) error {
	if directory == "" {
		return posthaste.Invalidf("%s is empty: name a directory", name)
	}
	return nil
}

// Run makes the backup.
func (c *backupCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	err := withProgress(t, c.Data, c.To, func() error { return app.Backup(ctx, c.Data, c.To) })
	if err != nil {
		return err
	}
	return writeResult(t, c.Output, map[string]string{"data": c.Data, "to": c.To}, "%s was backed up to %s", c.Data, c.To)
}

// restoreCommand makes a data directory of a backup.
type restoreCommand struct {
	From string `env:"-" placeholder:"DIR" required:"" help:"Directory of the backup."`
	To   string `env:"-" placeholder:"DIR" required:"" help:"Data directory to create; it must not exist or must be empty."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *restoreCommand) Validate() error {
	return cmp.Or(named("from", c.From), named("to", c.To))
}

// Run copies the backup and checks the copy.
func (c *restoreCommand) Run(t terminal) error {
	var report app.Report
	err := withProgress(t, c.From, c.To, func() (err error) {
		report, err = app.Restore(c.From, c.To)
		return err
	})
	if err != nil {
		return err
	}
	return writeReport(t, c.Output, c.From, report)
}
