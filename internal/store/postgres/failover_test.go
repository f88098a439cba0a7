package postgres_test

import (
	"errors"
	"log/slog"
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/pgtest"
)

// A name that leads to the primary leads to a standby for a while, before it is promoted. Calls are
// refused meanwhile, and the log has one line for each end of that.
func TestAStandbyBeforeItsPromotion(t *testing.T) {
	pair := pgtest.RunPair(t, true)
	c, url := newCutter(t, pair.Primary.URL("postgres"))
	log := &lines{}
	s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	rules := newRuled(s)
	m := accept(t, rules, start)
	if err := pair.AwaitReplay(); err != nil {
		t.Fatal(err)
	}
	c.lead(t, pair.Standby.URL("postgres"))
	if err := pair.Primary.Halt(); err != nil {
		t.Fatal(err)
	}
	await(t, "a line about the outage", func() bool {
		if err := acceptOne(t.Context(), rules, newMessage(start)); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Accept = %v, want ErrUnavailable", err)
		}
		return log.count("database.lost") > 0
	})
	if err := pair.Promote(); err != nil {
		t.Fatal(err)
	}
	await(t, "a line about the end", func() bool { return log.count("database.back") > 0 })
	settle(t, rules, store.Delivered(claimOne(t, rules, m)))
	if log.count("") != 3 || log.count("node.joined") != 1 || log.count("database.lost") != 1 {
		t.Errorf("the log has not the three lines that it should have:\n%s", &log.text)
	}
}
