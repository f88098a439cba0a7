package cli

import (
	"net/url"
	"time"

	"posthaste"
	"posthaste/internal/app"
)

// databaseSettings name a PostgreSQL that any number of servers share. The URL is a
// secret, for it may hold a password: no error shows it.
type databaseSettings struct {
	DatabaseURL         string `name:"database-url" group:"database" placeholder:"URL" help:"PostgreSQL database, which several servers may share: postgres://USER:PASSWORD@HOST:PORT/DATABASE."`
	DatabaseConnections int    `group:"database" default:"10" help:"Maximum number of connections from this server to the database: 4 to 1000."`
	NodeLease           span   `group:"database" default:"10s" help:"Time without a heartbeat after which other servers repeat this server's attempts in flight: 3s to 5m. An outage of the database that is longer ends them, too."`
	partitionsSetting
}

// partitionsSetting says in how many partitions each user of a database is divided.
type partitionsSetting struct {
	Partitions int `group:"database" default:"0" help:"Number of parts each user of the database is divided into, so that several servers can share the load: 1, 2, 4, 8, 16, 32 or 64. A greater number than the database has divides its users while servers run; a smaller one changes nothing. 0: as the database has it, or 1 in a new one."`
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
	if s.DatabaseURL == "" {
		return s.needsDatabase()
	}
	return firstError(
		checkDatabaseURL(s.DatabaseURL),
		// One listens to other nodes, one renews this node's lease, and two are left for everything else.
		within("database-connections", count(s.DatabaseConnections), 4, 1000),
		within("node-lease", s.NodeLease, span(3*time.Second), span(5*time.Minute)),
		s.partitionsSetting.check(),
	)
}

func (s *databaseSettings) addTo(options *app.Options) {
	options.DatabaseURL = s.DatabaseURL
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
