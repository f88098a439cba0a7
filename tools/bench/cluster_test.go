package main

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store/postgres/pgtest"
)

func TestClusterComparesNodesAndLeavesNoDatabase(t *testing.T) {
	cluster, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	options := small(t)
	options.Scenarios = []string{clusterName}
	options.DatabaseURL = cluster.Database(t)
	before := databases(t, options.DatabaseURL)
	tests := map[string]struct {
		river      string
		paced      bool
		partitions []int
		want       []string // the tables: scenario, baseline and subject
	}{
		"nodes alone": {"", false, []int{1, 4}, []string{
			"cluster, 2 nodes: 1 node, 2 nodes", "cluster, 3 nodes: 1 node, 3 nodes", "cluster, 1 node, 4 partitions: 1 node, 1 node, 4 partitions",
			"cluster, 2 nodes, 4 partitions: 1 node, 2 nodes, 4 partitions", "cluster, 3 nodes, 4 partitions: 1 node, 3 nodes, 4 partitions",
		}},
		"with a job queue": {os.Args[0], false, []int{1}, []string{
			"cluster, 1 node: river, 1 node", "cluster, 2 nodes: 1 node, 2 nodes", "cluster, 3 nodes: 1 node, 3 nodes", "cluster, embedded: river, embedded",
		}},
		"at a rate": {"", true, []int{1}, []string{"cluster, 2 nodes: 1 node, 2 nodes", "cluster, 3 nodes: 1 node, 3 nodes"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options.River, options.Paced, options.Partitions = test.river, test.paced, test.partitions
			report, err := Run(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			var tables []string
			for _, r := range report.Results {
				tables = append(tables, r.Scenario+": "+r.Baseline+", "+r.Subject)
				accepted, lost := measure(t, report, r.Scenario, "accepted"), measure(t, report, r.Scenario, "lost")
				if all := float64(options.Messages * options.Rounds); *accepted.Baseline != all || *accepted.Subject != all {
					t.Errorf("%s: %g and %g messages were accepted, want %g", r.Scenario, *accepted.Baseline, *accepted.Subject, all)
				}
				if *lost.Baseline != 0 || *lost.Subject != 0 {
					t.Errorf("%s: %g and %g messages were lost", r.Scenario, *lost.Baseline, *lost.Subject)
				}
			}
			if !slices.Equal(tables, test.want) {
				t.Errorf("tables %q, want %q", tables, test.want)
			}
			if after := databases(t, options.DatabaseURL); after != before {
				t.Errorf("%d databases are left, there were %d", after, before)
			}
		})
	}
}

// databases returns how many databases there are.
func databases(t *testing.T, url string) (n int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM pg_database").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
