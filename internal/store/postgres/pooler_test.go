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
// track that.
func TestATransactionPoolerBetween(t *testing.T) {
	for name, test := range map[string]struct {
		tracks  bool
		setting string
	}{
		"that tracks prepared statements": {true, ""},
		"that does not":                   {false, "&default_query_exec_mode=exec"},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.RunHistories(t, 1, func(t *testing.T) ([]string, []store.Store) {
				return []string{"model", "pooled"}, []store.Store{model.New(), open(t, pooled(t, test.tracks)+test.setting)}
			})
			t.Run("nodes", func(t *testing.T) {
				url := pooled(t, test.tracks) + test.setting
				here, there := open(t, url), open(t, url)
				drain(here.Wake())
				m := accept(t, there, start)
				wantSignal(t, "Wake", here.Wake())
				settle(t, there, store.Delivered(claimOne(t, here, m)))
			})
		})
	}
	t.Run("that does not, without the setting", func(t *testing.T) {
		url := pooled(t, false)
		var err error
		for tries := 0; err == nil && tries < 50; tries++ {
			err = acceptBehind(t.Context(), url)
		}
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "add default_query_exec_mode=exec to the URL") {
			t.Errorf("a node that prepares statements = %v, want ErrUnavailable and what is to be set", err)
		}
	})
}

// pooled returns the URL of an empty database behind a pooler.
func pooled(t *testing.T, tracks bool) string {
	t.Helper()
	direct, err := url.Parse(emptyDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Pooler(t, strings.TrimPrefix(direct.Path, "/"), tracks)
}

// acceptBehind opens a store, accepts a message and closes it.
func acceptBehind(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, quiet)
	if err != nil {
		return err
	}
	return errors.Join(acceptOne(ctx, newRuled(s), newMessage(start)), s.Close())
}
