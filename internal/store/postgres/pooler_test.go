package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

// A transaction pooler lends connections for one transaction at a time, to several nodes
// at once. Nothing is any different behind it.
func TestATransactionPoolerBetween(t *testing.T) {
	direct := emptyDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	pooled := cluster.Pooler(t, strings.TrimPrefix(u.Path, "/"))
	storetest.RunHistories(t, 1, func(t *testing.T) ([]string, []store.Store) {
		emptyDatabase(t)
		return []string{"model", "pooled"}, []store.Store{model.New(), open(t, pooled)}
	})
	t.Run("nodes", func(t *testing.T) {
		emptyDatabase(t)
		here, there := open(t, pooled), open(t, pooled)
		drain(here.Wake())
		m := accept(t, there, start)
		wantSignal(t, "Wake", here.Wake())
		settle(t, there, store.Delivered(claimOne(t, here, m)))
	})
}
