package cli

import (
	"fmt"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/roff"
)

// manCommand prints the manual page that packages install.
type manCommand struct{}

// Run prints it.
func (manCommand) Run(t terminal, parsed *kong.Context) error {
	_, err := fmt.Fprintln(t.Out, mangokong.NewManPage(1, parsed.Model).Build(roff.NewDocument()))
	return err
}
