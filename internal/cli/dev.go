package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/client"
	"posthaste/internal/dispatch"
	"posthaste/internal/sign"
)

// devCommand runs a server for development: on this machine only, with users and
// keys that everybody knows, delivering to any address, and leaving nothing
// behind. Its flags and environment are those of qstash dev.
type devCommand struct {
	Port    int    `default:"8080" env:"POSTHASTE_PORT,QSTASH_DEV_PORT" help:"Port to listen on; 0 picks a free one. If none is given and 8080 is in use, the server listens on the next free one."`
	LogPort *int   `env:"POSTHASTE_LOG_PORT,QSTASH_DEV_LOG_PORT" help:"Second port that serves the same API, for log viewers that expect it. Default: the next port after --port, if it is free."`
	Quota   string `default:"payg" enum:"payg,pro" env:"POSTHASTE_QUOTA,QSTASH_DEV_QUOTA" help:"Accepted for compatibility with qstash dev: payg or pro. It has no effect."`
	Data    string `placeholder:"DIR" help:"Data directory. Default: a temporary directory that is removed on exit."`

	databaseSettings
	settings `kong:"set='shutdown_timeout=1s',set='log_level=warn'"` // who presses Ctrl-C does not want to wait
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
	return cmp.Or(
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
	if c.Data != "" && !c.none() {
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
func (c *devCommand) Run(t terminal, parsed *kong.Context) error {
	options := c.options(t.Err)
	listeners, err := c.listen(t, options.Log, isGiven(parsed, "port"))
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
	c.addTo(&options)
	options.Destinations = dispatch.Policy{Mode: dispatch.ModeAny}
	options.CORS = true
	options.SigningKeys = make(map[string]sign.KeyPair)
	for _, user := range devUsers {
		options.Tokens = append(options.Tokens, user.token(false).Encode(), user.token(true).Encode())
		options.SigningKeys[user.name] = user.keys
	}
	if slog.Level(c.LogLevel) > slog.LevelInfo {
		options.Log = slog.New(withoutAttempts{options.Log.Handler()})
	}
	attempts := newFeed(t.Err)
	options.Attempted = attempts.add
	atEnd := func() error {
		attempts.close()
		return remove()
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", portOf(listeners[0]))
	return runServer(options, time.Duration(c.ShutdownTimeout), func(*app.App) error {
		if err := c.welcome(t, url, directory, devUsers[0]); err != nil {
			return err
		}
		if isTerminal(t.Out) && isTerminal(os.Stdin) {
			go openOnDemand(t, os.Stdin, consoleURL(url, devUsers[0].token(false).Encode()))
		}
		return nil
	}, atEnd)
}

// listen binds the port and the second one. A second port that nobody asked for
// may be taken; the server then does without. If nobody asked for the port either, the
// next free one takes its place.
func (c *devCommand) listen(t terminal, logger *slog.Logger, asked bool) ([]net.Listener, error) {
	listeners, err := listenLoopback(c.Port)
	if taken, is := errors.AsType[*inUseError](err); is {
		listeners, err = c.besides(t, taken, asked)
	}
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

// besides binds the next free port beside one that is taken, and says so. If that one was
// asked for, it only names the free one: who starts a server on a port, such as an SDK,
// looks for it there.
func (c *devCommand) besides(t terminal, taken *inUseError, asked bool) ([]net.Listener, error) {
	const enough = 100
	for port := c.Port + 1; port <= min(c.Port+enough, maxPort); port++ {
		listeners, err := listenLoopback(port)
		if err != nil || c.LogPort != nil && *c.LogPort == port {
			closeAll(listeners)
			continue
		}
		if asked {
			closeAll(listeners)
			return nil, fmt.Errorf("port %d is free, use --port %[1]d: %w", port, taken)
		}
		who := "another program"
		if isDevServer(c.Port) {
			who = "another development server"
		}
		return listeners, writeLine(t.Err, "Port %d is in use by %s, so this server listens on %d.", c.Port, who, port)
	}
	return nil, taken
}

// isDevServer reports whether a development server listens on a port of this machine, by
// what its SDKs recognise it by.
func isDevServer(port int) bool {
	server, err := client.New(client.Options{Server: client.Server{
		URL: fmt.Sprintf("http://127.0.0.1:%d", port), Token: devUsers[0].token(false).Encode(),
	}})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var keys struct{ Current, Next string }
	err = server.Do(ctx, client.Request{Path: "/v2/keys"}, &keys)
	return err == nil && sign.KeyPair(keys) == devUsers[0].keys
}

// directory returns the directory of the store, "" for a database, and what to do with
// it at the end.
func (c *devCommand) directory() (path string, remove func() error, err error) {
	if c.Data != "" || !c.none() {
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
func (c *devCommand) welcome(t terminal, url, directory string, user devUser) error {
	coloured := hasColours(t.Out)
	in := func(colour colour, text string) string {
		if coloured {
			return colour.of(text)
		}
		return text
	}
	token := user.token(false).Encode()
	place := directory
	switch {
	case !c.none():
		place = c.databaseURLs.place()
	case c.Data == "":
		place += " (temporary: removed on exit; keep data with --data DIR)"
	}
	_, err := fmt.Fprintf(t.Out, `Posthaste is running at %[1]s
Version: %[5]s
Data:    %[6]s

%[7]s
QSTASH_URL=%[1]s
QSTASH_TOKEN=%[2]s
QSTASH_CURRENT_SIGNING_KEY=%[3]s
QSTASH_NEXT_SIGNING_KEY=%[4]s

%[8]s
posthaste publish https://example.com -d hello%[12]s
curl -X POST %[1]s/v2/publish/https://example.com -H "Authorization: Bearer %[2]s" -d "hello"

%[9]s
posthaste logs%[12]s
%[10]s
%[11]s
`, url, token, user.keys.Current, user.keys.Next, app.Version, place,
		in(faint, "# The environment of your app:"),
		in(faint, "# Try it:"),
		in(faint, "# See what happened, here below or with:"),
		in(faint, "# or in the console, already signed in"+onDemand(t)+":"),
		in(busy, consoleURL(url, token)), elsewhere(url))
	return err
}

// elsewhere returns the flag that leads the command line to a server that is not where it
// looks by itself.
func elsewhere(url string) string {
	if url == developmentServer.URL {
		return ""
	}
	return " --url " + url
}

// onDemand says how the console is opened where somebody can press keys.
func onDemand(t terminal) string {
	if isTerminal(t.Out) && isTerminal(os.Stdin) {
		return "; press o and Enter to open it"
	}
	return ""
}
