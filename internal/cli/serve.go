package cli

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/dispatch"
)

// serveCommand runs the server. It knows no predefined secret: what is not given
// is made at the first start and kept in the store.
type serveCommand struct {
	Listen         []string  `default:":8080" help:"Addresses to listen on, HOST:PORT or :PORT."`
	Data           string    `placeholder:"DIR" help:"Data directory, created if it does not exist. This or --database-url is required."`
	TrustedProxies []network `placeholder:"CIDR" help:"Reverse proxies, as CIDR ranges, whose X-Forwarded-For, -Proto and -Host headers are trusted."`

	ShutdownLead span `default:"2s" help:"How long the server keeps serving after SIGTERM while /readyz returns 503, so that load balancers notice: up to 1h. --shutdown-timeout starts afterwards."`

	databaseSettings
	accessSettings
	destinationSettings
	alertSettings
	settings `kong:"set='shutdown_timeout=6s',set='log_level=info'"` // together with the lead less than the 10s that Docker waits
}

// destinationSettings say which addresses are delivered to.
type destinationSettings struct {
	Destinations      dispatch.Mode `group:"destinations" default:"internal" help:"Allowed destination addresses: public, internal (public and private), or any (also loopback and link-local)."`
	AllowDestinations []network     `group:"destinations" placeholder:"CIDR" help:"CIDR ranges that are always allowed as destinations."`
	DenyDestinations  []network     `group:"destinations" placeholder:"CIDR" help:"CIDR ranges that are denied as destinations, unless --allow-destinations includes them."`
}

// Validate returns a sentence about the first setting that is wrong or that
// contradicts another.
func (c *serveCommand) Validate() error {
	return cmp.Or(
		c.checkStore(),
		checkAddresses(c.Listen),
		within("shutdown-lead", c.ShutdownLead, 0, span(time.Hour)),
		c.accessSettings.check(),
		c.destinationSettings.check(),
		c.alertSettings.check(c.policy()),
		c.settings.check(),
	)
}

func (c *serveCommand) checkStore() error {
	switch {
	case c.Data == "" && c.none():
		return posthaste.Invalidf("data is missing: give the data directory with --data DIR, or a database that several servers share with --database-url URL")
	case c.Data != "" && !c.none():
		return bothStores(c.Data)
	}
	return c.databaseSettings.check()
}

func bothStores(directory string) error {
	return posthaste.Invalidf("data %q and database-url are both given: a server stores everything in one of them, so leave one out", directory)
}

func (s *destinationSettings) check() error {
	if s.Destinations == dispatch.ModeAny && len(s.AllowDestinations) > 0 && len(s.DenyDestinations) == 0 {
		return posthaste.Invalidf("allow-destinations has no effect with destinations any: choose internal or public, or name ranges in deny-destinations")
	}
	return nil
}

func (s *destinationSettings) policy() dispatch.Policy {
	return dispatch.Policy{
		Mode:  s.Destinations,
		Allow: prefixes(s.AllowDestinations),
		Deny:  prefixes(s.DenyDestinations),
	}
}

// Run serves until a signal.
func (c *serveCommand) Run(t terminal) error {
	options := c.options(t.Err)
	if err := c.grant(&options); err != nil {
		return err
	}
	options.Data = c.Data
	c.addTo(&options)
	options.TrustedProxies = prefixes(c.TrustedProxies)
	options.Destinations = c.policy()
	options.Alerts = c.alerts()
	options.ShutdownLead = time.Duration(c.ShutdownLead)
	listeners, err := listenAll(c.Listen)
	if err != nil {
		return err
	}
	options.Listeners = listeners
	return runServer(options, time.Duration(c.ShutdownTimeout), func(server *app.App) error {
		return greet(t, listeners, c.place(), server.Made())
	}, nothingAtEnd)
}

// place says where the server keeps everything, without a password.
func (c *serveCommand) place() string {
	if c.none() {
		if path, err := filepath.Abs(c.Data); err == nil {
			return "directory " + path
		}
		return "directory " + c.Data
	}
	return c.databaseURLs.place()
}

// place says where the databases are, without a password.
func (s *databaseURLs) place() string {
	var places []string
	for _, text := range s.urls() {
		if location, err := url.Parse(text); err == nil { // else nothing of it is shown
			places = append(places, location.Host+location.Path)
		}
	}
	return "database " + strings.Join(places, ", ")
}

// greet says where the server is and what it has, and shows the secrets that were made for
// it.
func greet(t terminal, listeners []net.Listener, place string, made app.Made) error {
	var text strings.Builder
	for _, listener := range listeners {
		fmt.Fprintf(&text, "Posthaste is running at http://%s\n", visibleAddress(listener))
	}
	if len(listeners) > 0 {
		fmt.Fprintf(&text, `Console:      http://%[1]s/console
API docs:     http://%[1]s/docs
Signing keys: GET http://%[1]s/v2/keys with a token, or see the console
`, visibleAddress(listeners[0]))
	}
	fmt.Fprintf(&text, "Data:         %s\n", place)
	if made.Token != "" {
		fmt.Fprintf(&text, "A token was generated for this server. Save it, it is not shown again:\nQSTASH_TOKEN=%s\n", made.Token)
	}
	if made.AlertKey != "" {
		fmt.Fprintf(&text, "A key that signs alerts was generated. Save it, it is not shown again:\nPOSTHASTE_ALERT_SIGNING_KEY=%s\n", made.AlertKey)
	}
	_, err := fmt.Fprint(t.Out, text.String())
	return err
}

// visibleAddress returns an address at which a client on this machine reaches the
// listener: one on all addresses has no host to show.
func visibleAddress(listener net.Listener) string {
	address := listener.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", address.Port)
	}
	return address.String()
}
