package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"posthaste/internal/app"
	"posthaste/internal/client"
)

// connection is how the commands that call a server find it (contract, decision
// 27). The environment is read by client.Find, which knows more names than a flag
// has.
type connection struct {
	Profile string `group:"server" env:"POSTHASTE_PROFILE" placeholder:"NAME" help:"Profile with URL and token of the server; see posthaste profile. Default: the one in use, unless a variable names a server."`

	URL   string `group:"server" env:"-" placeholder:"URL" help:"URL of the server. Default: $$POSTHASTE_URL, $$QSTASH_URL, the profile in use, or the development server on this machine."`
	Token string `group:"server" env:"-" placeholder:"TOKEN" help:"API token. Default: $$POSTHASTE_TOKEN, $$QSTASH_TOKEN, the profile in use, or the token of development servers. Prefer a variable: other users of the machine can read command lines."`
}

// developmentServer is where posthaste dev runs by default.
var developmentServer = client.Server{URL: "http://127.0.0.1:8080", Token: devUsers[0].token(false).Encode()}

// Validate returns a sentence about a URL that is none.
func (c *connection) Validate() error {
	_, err := c.open(terminal{})
	for _, variable := range []string{"POSTHASTE_URL", "QSTASH_URL"} { // as client.Find has them
		if err != nil && c.URL == "" && c.Profile == "" && os.Getenv(variable) != "" {
			return fmt.Errorf("%w (from %s)", err, variable)
		}
	}
	return err
}

// open returns a client of the server. Nothing is sent yet. Interruptions of a
// stream are reported where log lines go.
func (c *connection) open(t terminal) (*client.Client, error) {
	server, err := c.server()
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Server:    server,
		UserAgent: "posthaste/" + app.Version,
		Lost: func(err error, wait time.Duration) {
			_, _ = fmt.Fprintf(t.Err, "posthaste: %v, retrying in %s\n", err, wait)
		},
	})
}

// server returns the server that is meant: the one that is given; that of a profile that is
// named; that of the environment; that of the profile in use; a development server. The token
// of a profile goes to no other server.
func (c *connection) server() (client.Server, error) {
	given, otherwise := client.Server{URL: c.URL, Token: c.Token}, developmentServer
	all, err := readProfiles()
	if err != nil && c.URL == "" {
		return given, err
	}
	profile := all.Profiles[all.Current]
	if c.Profile != "" {
		if profile, err = all.named(c.Profile); err != nil {
			return given, err
		}
		given.URL = cmp.Or(given.URL, profile.URL)
		if given.URL == profile.URL {
			given.Token = cmp.Or(given.Token, profile.Token)
		}
	}
	if found := client.Find(given, os.Getenv, client.Server{}); profile.URL != "" && cmp.Or(found.URL, profile.URL) == profile.URL {
		otherwise = profile
	}
	return client.Find(given, os.Getenv, otherwise), nil
}

// call calls do with a client of the server, and a context that ends at the first signal.
func (c *connection) call(t terminal, do func(context.Context, *client.Client) error) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := c.open(t)
	if err != nil {
		return err
	}
	return do(ctx, server)
}

// show sends a request and writes the answer: as JSON, or as print does.
func (c *connection) show(t terminal, request client.Request, output string, print func(terminal, json.RawMessage) error) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		var answer json.RawMessage
		if err := server.Do(ctx, request, &answer); err != nil {
			return err
		}
		if output == "json" {
			return writeJSON(t.Out, answer)
		}
		return print(t, answer)
	})
}
