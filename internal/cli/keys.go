package cli

import (
	"encoding/json"
	"net/http"

	"posthaste/internal/client"
)

// keysCommand is about signing keys.
type keysCommand struct {
	Show   showKeysCommand   `cmd:"" help:"Show the signing keys, as environment variables for receivers."`
	Rotate rotateKeysCommand `cmd:"" help:"Make the next signing key the current one, and generate a new next one."`
}

type showKeysCommand struct {
	oneOutput
	connection
}

// Run prints the keys.
func (c *showKeysCommand) Run(t terminal) error {
	return c.show(t, client.Request{Path: "/v2/keys"}, c.Output, printKeys)
}

type rotateKeysCommand struct {
	confirmation
	oneOutput
	connection
}

// Run rotates the keys: receivers that know neither of the new ones refuse deliveries.
func (c *rotateKeysCommand) Run(t terminal) error {
	if err := c.ask(t, "rotate the signing keys, and receivers that have only the current key will refuse deliveries"); err != nil {
		return err
	}
	return c.show(t, client.Request{Method: http.MethodPost, Path: "/v2/keys/rotate"}, c.Output, printKeys)
}

func printKeys(t terminal, answer json.RawMessage) error {
	return writeLine(t.Out, "QSTASH_CURRENT_SIGNING_KEY=%s\nQSTASH_NEXT_SIGNING_KEY=%s",
		shown(textIn(answer, "current")), shown(textIn(answer, "next")))
}
