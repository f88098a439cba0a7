package e2e

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"posthaste/internal/store/postgres/pgtest"
)

// The stores that servers can be tested on.
const (
	backendEmbedded = "embedded"
	backendPostgres = "postgres"
)

var backend = flag.String("backend", backendEmbedded, "what the servers keep everything in: embedded, or postgres, which is started for the tests")

var partitions = flag.Int("partitions", 1, "in how many partitions users of a database are divided")

var databases = flag.Int("databases", 1, "how many databases divide the partitions of users")

func checkBackend() error {
	if *backend != backendEmbedded && *backend != backendPostgres {
		return fmt.Errorf("-backend %q is not known: give %s or %s", *backend, backendEmbedded, backendPostgres)
	}
	return nil
}

// onceOnly skips a test that says nothing of the store, unless this is the run on the
// embedded one.
func onceOnly(t *testing.T) {
	t.Helper()
	if *backend != backendEmbedded {
		t.Skip("runs once, on the embedded store: it does not depend on what there is below")
	}
}

// storeFlags returns the flags of a server whose store is a directory, or the database
// that takes its place.
func storeFlags(t *testing.T, directory string) []string {
	t.Helper()
	if *backend == backendEmbedded {
		return []string{"--data", directory}
	}
	return databaseFlags(shared.databaseFor(t, directory))
}

// databaseFlags returns the flags of a server on a database. Many share one PostgreSQL.
func databaseFlags(url string) []string { return dividedFlags(url, *partitions) }

// dividedFlags returns the flags of a server on a database whose users have so many partitions at least.
func dividedFlags(url string, partitions int) []string {
	return []string{"--database-url", url, "--database-connections", "6", "--partitions", strconv.Itoa(partitions), "--node-lease", nodeLease.String()}
}

// shared is the PostgreSQL of the tests.
var shared sharedCluster

// sharedCluster is a PostgreSQL that is started for the first test that asks for a
// database.
type sharedCluster struct {
	mu          sync.Mutex
	cluster     *pgtest.Cluster
	byDirectory map[string]string // URLs of databases, with spaces between those that are used together
}

// databaseFor returns the URL of the database that takes the place of a directory, and
// makes it at the first time.
func (s *sharedCluster) databaseFor(t *testing.T, directory string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if url, there := s.byDirectory[directory]; there {
		return url
	}
	if s.cluster == nil {
		cluster, err := pgtest.Start()
		if err != nil {
			t.Fatal(err)
		}
		s.cluster, s.byDirectory = cluster, map[string]string{}
	}
	s.byDirectory[directory] = databasesIn(t, s.cluster)
	return s.byDirectory[directory]
}

// databasesIn makes the databases of a server, and returns their URLs with spaces between.
func databasesIn(t *testing.T, cluster *pgtest.Cluster) string {
	t.Helper()
	var urls []string
	for range *databases {
		urls = append(urls, cluster.Database(t))
	}
	return strings.Join(urls, " ")
}

// stop stops the PostgreSQL, if it was started.
func (s *sharedCluster) stop() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Stop()
}

// needPostgres skips a test of many nodes in the run on the embedded store.
func needPostgres(t *testing.T) {
	t.Helper()
	if *backend != backendPostgres {
		t.Skip("needs many nodes: give -backend postgres")
	}
}
