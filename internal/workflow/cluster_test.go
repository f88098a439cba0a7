package workflow_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/pgtest"
)

// usualClusterSeeds is how many seeds TestFlowsOfTwoNodes tries unless told otherwise.
const usualClusterSeeds = 2

// TestFlowsOfTwoNodes runs the flows of TestRandom on two servers that share a PostgreSQL,
// without crashes: what is claimed by which is left to them, and every run ends as it
// should.
func TestFlowsOfTwoNodes(t *testing.T) {
	cluster := pgtest.Run(t)
	for _, seed := range randomSeeds(t, usualClusterSeeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			url := cluster.Database(t) + "&synchronous_commit=off" // nothing crashes here
			join := func() (store.Store, error) {                  // not with the context of t, which is outside of the bubble
				return ledger.Over(partition.Over(postgres.Open(context.Background(), url, postgres.Options{Partitions: 4, AnyClock: true, ClaimAccepted: true, Logger: slog.New(slog.DiscardHandler)})))
			}
			s := randomScript(rand.New(rand.NewPCG(seed, 0)), seed)
			s.setup.nodes = []func() (store.Store, error){join, join}
			s.play(t, nil, 0, nil, (*world).wantAllEnded)
			if t.Failed() {
				t.Logf("try it again with %s=%d", seedVariable, seed)
			}
		})
	}
}
