package cli

import (
	"net/url"

	"posthaste"
)

// databaseSettings name a PostgreSQL that any number of servers share. The URL is a
// secret, for it may hold a password: no error shows it.
type databaseSettings struct {
	DatabaseURL         string `name:"database-url" group:"database" placeholder:"URL" help:"PostgreSQL database, which several servers may share: postgres://USER:PASSWORD@HOST:PORT/DATABASE."`
	DatabaseConnections int    `group:"database" default:"10" help:"Maximum number of connections from this server to the database: 4 to 1000."`
}

func (s *databaseSettings) check() error {
	if s.DatabaseURL == "" {
		return nil
	}
	return firstError(
		checkDatabaseURL(s.DatabaseURL),
		// One listens to other nodes, one renews this node's lease, and two are left for everything else.
		within("database-connections", count(s.DatabaseConnections), 4, 1000),
	)
}

func checkDatabaseURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		return nil
	}
	return posthaste.Invalidf("database-url is not the URL of a PostgreSQL database: postgres://USER:PASSWORD@HOST:PORT/DATABASE is accepted, with special characters of the password percent-encoded")
}
