package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

// A transaction pooler lends connections for one transaction at a time, to several nodes
// at once. Nothing is any different behind it, provided that nothing is prepared if it does not
// follow that.
func TestATransactionPoolerBetween(t *testing.T) {
	direct := emptyDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	unfollowed := cluster.Pooler(t, strings.TrimPrefix(u.Path, "/"))
	pooled := unfollowed + "&default_query_exec_mode=exec"
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
	t.Run("without the setting", func(t *testing.T) {
		emptyDatabase(t)
		var err error
		for tries := 0; err == nil && tries < 50; tries++ {
			err = acceptBehind(t.Context(), unfollowed)
		}
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "add default_query_exec_mode=exec to the URL") {
			t.Errorf("a node that prepares statements = %v, want ErrUnavailable and what is to be set", err)
		}
	})
}

// acceptBehind opens a store, accepts a message and closes it.
func acceptBehind(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, quiet)
	if err != nil {
		return err
	}
	return errors.Join(acceptOne(ctx, newRuled(s), newMessage(start)), s.Close())
}
