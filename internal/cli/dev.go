package cli

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/dispatch"
	"posthaste/internal/sign"
)

// devCommand runs a server for development: on this machine only, with users and
// keys that everybody knows, delivering to any address, and leaving nothing
// behind. Its flags and environment are those of qstash dev.
type devCommand struct {
	Port    int    `default:"8080" env:"POSTHASTE_PORT,QSTASH_DEV_PORT" help:"Port to listen on; 0 picks a free one."`
	LogPort *int   `env:"POSTHASTE_LOG_PORT,QSTASH_DEV_LOG_PORT" help:"Second port that serves the same API, for log viewers that expect it. Default: the next port after --port, if it is free."`
	Quota   string `default:"payg" enum:"payg,pro" env:"POSTHASTE_QUOTA,QSTASH_DEV_QUOTA" help:"Accepted for compatibility with qstash dev: payg or pro. It has no effect."`
	Data    string `placeholder:"DIR" help:"Data directory. Default: a temporary directory that is removed on exit."`

	databaseSettings
	settings `set:"shutdown_timeout=1s"` // who presses Ctrl-C does not want to wait
}

// devUser is a user that every development server has.
type devUser struct {
	name, password string
	keys           sign.KeyPair
}

// devUsers are the users, the default one first, that SDKs and their examples
// know (contract, messages 8).
var devUsers = []devUser{
	{"defaultUser", "defaultPassword", sign.KeyPair{Current: "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", Next: "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"}},
	{"testUser1", "testPassword", sign.KeyPair{Current: "sig_7GVPjvuwsfqF65iC8fSrs1dfYruM", Next: "sig_5NoELc3EFnZn4DVS5bDs2Nk4b7Ua"}},
	{"testUser2", "testPassword", sign.KeyPair{Current: "sig_6jWGaWRxHsw4vMSPJprXadyvrybF", Next: "sig_7qHbvhmahe5GwfePDiS5Lg3pi6Qx"}},
	{"testUser3", "testPassword", sign.KeyPair{Current: "sig_5T8FcSsynBjn9mMLBsXhpacRovJf", Next: "sig_7GFR4YaDshFcqsxWRZpRB161jguD"}},
}

// token returns a token of the user. Both kinds share the password: there is
// nothing to protect.
func (u devUser) token(readOnly bool) sign.Token {
	return sign.Token{UserID: u.name, Password: u.password, ReadOnly: readOnly}
}

// Validate returns a sentence about the first setting that is wrong.
func (c *devCommand) Validate() error {
	return firstError(
		within("port", count(c.Port), 0, maxPort),
		c.checkLogPort(),
		c.checkStore(),
		c.settings.check(),
	)
}

const maxPort = 65535

func (c *devCommand) checkLogPort() error {
	if c.LogPort == nil {
		return nil
	}
	if *c.LogPort == c.Port && c.Port != 0 {
		return posthaste.Invalidf("log-port %d is the port of the server: give another, or leave it out", c.Port)
	}
	return within("log-port", count(*c.LogPort), 0, maxPort)
}

func (c *devCommand) checkStore() error {
	if c.Data != "" && c.DatabaseURL != "" {
		return bothStores(c.Data)
	}
	return c.databaseSettings.check()
}

// logPort returns the second port of a server that listens on port.
func (c *devCommand) logPort(port int) int {
	if c.LogPort != nil {
		return *c.LogPort
	}
	return port + 1
}

// Run serves until a signal.
func (c *devCommand) Run(t terminal) error {
	options := c.options(t.Err)
	listeners, err := c.listen(options.Log)
	if err != nil {
		return err
	}
	directory, remove, err := c.directory()
	if err != nil {
		closeAll(listeners)
		return err
	}
	options.Listeners = listeners
	options.Data = directory
	options.DatabaseURL = c.DatabaseURL
	options.Connections = c.DatabaseConnections
	options.Destinations = dispatch.Policy{Mode: dispatch.ModeAny}
	options.CORS = true
	options.SigningKeys = make(map[string]sign.KeyPair)
	for _, user := range devUsers {
		options.Tokens = append(options.Tokens, user.token(false).Encode(), user.token(true).Encode())
		options.SigningKeys[user.name] = user.keys
	}
	return runServer(options, time.Duration(c.ShutdownTimeout), func(*app.App) error {
		return welcome(t, fmt.Sprintf("http://127.0.0.1:%d", portOf(listeners[0])), devUsers[0])
	}, remove)
}

// listen binds the port and the second one. A second port that nobody asked for
// may be taken; the server then does without.
func (c *devCommand) listen(logger *slog.Logger) ([]net.Listener, error) {
	listeners, err := listenLoopback(c.Port)
	if err != nil {
		return nil, err
	}
	second := c.logPort(portOf(listeners[0]))
	more, err := listenLoopback(second)
	switch {
	case err == nil:
		return append(listeners, more...), nil
	case c.LogPort == nil:
		logger.Warn("log_port.skipped", "port", second, "error", err)
		return listeners, nil
	default:
		closeAll(listeners)
		return nil, err
	}
}

// directory returns the directory of the store, "" for a database, and what to do with
// it at the end.
func (c *devCommand) directory() (path string, remove func() error, err error) {
	if c.Data != "" || c.DatabaseURL != "" {
		return c.Data, nothingAtEnd, nil
	}
	path, err = os.MkdirTemp("", "posthaste-dev-")
	if err != nil {
		return "", nil, fmt.Errorf("create a temporary directory: %w", err)
	}
	return path, func() error { return os.RemoveAll(path) }, nil
}

// welcome prints what a developer copies. The SDKs that start this server wait
// for the line that says it is running.
func welcome(t terminal, url string, user devUser) error {
	token := user.token(false).Encode()
	_, err := fmt.Fprintf(t.Out, `Posthaste is running at %[1]s

QSTASH_URL=%[1]s
QSTASH_TOKEN=%[2]s
QSTASH_CURRENT_SIGNING_KEY=%[3]s
QSTASH_NEXT_SIGNING_KEY=%[4]s

Try it:
curl -X POST %[1]s/v2/publish/https://example.com -H "Authorization: Bearer %[2]s" -d "hello"

See what happened:
curl %[1]s/v2/logs -H "Authorization: Bearer %[2]s"
or open the console in a browser, already signed in:
%[1]s/console#token=%[2]s
`, url, token, user.keys.Current, user.keys.Next)
	return err
}
