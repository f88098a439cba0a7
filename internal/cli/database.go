package cli

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/app"
)

// databaseSettings name a PostgreSQL that any number of servers share, or several. A URL is a
// secret, for it may hold a password: no error shows it.
type databaseSettings struct {
	databaseURLs
	DatabaseConnections int  `group:"database" default:"10" help:"Maximum number of connections from this server to a database: 4 to 1000."`
	NodeLease           span `group:"database" default:"10s" help:"Time without a heartbeat after which other servers repeat this server's attempts in flight: 3s to 5m. An outage of the database that is longer ends them, too."`
	partitionsSetting
}

// databaseURLs name a database, or several that divide the partitions of users.
type databaseURLs struct {
	DatabaseURL []string `name:"database-url" group:"database" sep:"none" placeholder:"URL" help:"PostgreSQL database, which several servers may share: postgres://USER:PASSWORD@HOST:PORT/DATABASE. Given up to 16 times, or with spaces between: databases that divide the data of each user, always in this order."`
}

// mostDatabases is how many databases divide users at most.
const mostDatabases = 16

// urls returns the URLs one by one: a variable of the environment has all of them, with spaces between.
func (s *databaseURLs) urls() []string { return strings.Fields(strings.Join(s.DatabaseURL, " ")) }

// none reports whether no database is given.
func (s *databaseURLs) none() bool { return len(s.urls()) == 0 }

func (s *databaseURLs) check() error {
	urls := s.urls()
	if len(urls) > mostDatabases {
		return posthaste.Invalidf("database-url is given %d times: 1 to %d are accepted", len(urls), mostDatabases)
	}
	for i, text := range urls {
		if err := checkDatabaseURL(text); err != nil {
			return err
		}
		if slices.Contains(urls[:i], text) {
			return posthaste.Invalidf("database-url names a database twice, the second time as number %d: give each once", i+1)
		}
	}
	return nil
}

// partitionsSetting says in how many partitions each user of a database is divided.
type partitionsSetting struct {
	Partitions int `group:"database" default:"0" help:"Number of parts each user of the database is divided into, so that several servers can share the load: 1, 2, 4, 8, 16, 32 or 64. A greater number than the database has divides its users while servers run; a smaller one changes nothing. 0: as the database has it, or 1 in a new one. In several databases the number is 16 by default, and does not change."`
}

// needsDatabase returns an error if users of a directory are to be divided.
func (s *partitionsSetting) needsDatabase() error {
	if s.Partitions == 0 {
		return nil
	}
	return posthaste.Invalidf("partitions %d is for a database, and none is given: only servers that share one divide their users", s.Partitions)
}

func (s *partitionsSetting) check() error {
	if n := s.Partitions; n < 0 || n > posthaste.Slots || n&(n-1) != 0 {
		return posthaste.Invalidf("partitions %d is not accepted: 0, 1, 2, 4, 8, 16, 32 or 64 is", n)
	}
	return nil
}

func (s *databaseSettings) check() error {
	if s.none() {
		return s.needsDatabase()
	}
	return cmp.Or(
		s.databaseURLs.check(),
		// One listens to other nodes, one renews this node's lease, and two are left for everything else.
		within("database-connections", count(s.DatabaseConnections), 4, 1000),
		within("node-lease", s.NodeLease, span(3*time.Second), span(5*time.Minute)),
		s.partitionsSetting.check(),
	)
}

func (s *databaseSettings) addTo(options *app.Options) {
	options.DatabaseURLs = s.urls()
	options.Connections, options.Partitions = s.DatabaseConnections, s.Partitions
	options.NodeLease = time.Duration(s.NodeLease)
}

func checkDatabaseURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		return nil
	}
	return posthaste.Invalidf("database-url is not the URL of a PostgreSQL database: postgres://USER:PASSWORD@HOST:PORT/DATABASE is accepted, with special characters of the password percent-encoded")
}
