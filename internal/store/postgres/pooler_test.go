package postgres_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
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
	t.Run("found out when it is opened", func(t *testing.T) {
		for url, want := range map[string]bool{direct: false, pooled: true} {
			var log bytes.Buffer
			s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if got := strings.Contains(log.String(), "msg=database.unprepared"); got != want {
				t.Errorf("through %s it says %t that nothing is prepared, want %t", url, got, want)
			}
		}
	})
	t.Run("found out later", func(t *testing.T) {
		emptyDatabase(t)
		s := open(t, pooled)
		s.PrepareAgain()
		failed := 0
		for range 50 {
			err := acceptOne(t.Context(), s, newMessage(start))
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("Accept = %v, want ErrUnavailable at most", err)
			}
			if err != nil {
				failed++
			}
		}
		if s.Prepares() || failed > 10 {
			t.Errorf("%d of 50 calls failed, want a few at most; statements are prepared still: %t", failed, s.Prepares())
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
