package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

// Who uses the API cannot tell which backend is behind it, and how many partitions there are.
func TestHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	storetest.RunHistories(t, 1, func(t *testing.T) ([]string, []store.Store) {
		embedded, err := lsm.Open("data", lsm.Options{FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = embedded.Close() })
		names, stores := []string{"model", "embedded", "postgres"}, []store.Store{model.New(), ledger.New(embedded), open(t, emptyDatabase(t))}
		several, databases := several(t, 2, postgres.Options{Partitions: 16}.WithPatience(claimPatience))
		return append(names, "4 partitions", "growing", "2 databases"), append(stores, divided(t, 4), growing(t), patient{several, databases})
	})
}

// growing joins the nodes of an empty database whose users are divided again from time to time.
func growing(t *testing.T) store.Store {
	t.Helper()
	url := emptyDatabase(t)
	t.Cleanup(func() { wantWhole(t, url) })
	s := openWith(t, url, postgres.Options{}.WithPatience(claimPatience).DividingLate())
	return &grower{patient: patient{s.Ledger, s.Store}, own: s.Store, t: t}
}

// grower divides users after some claims.
type grower struct {
	patient
	own    *postgres.Store
	t      *testing.T
	claims int
}

func (g *grower) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	g.claims++
	if partitions := map[int]store.Partitions{3: 2, 7: 8, 9: 16}[g.claims]; partitions != 0 {
		if err := g.own.Grow(ctx, partitions); err != nil {
			g.t.Error(err)
		}
	}
	if g.claims == 5 || g.claims == 8 || g.claims == 11 { // in between some users are not divided yet
		g.own.DivideAll()
	}
	return g.patient.Claim(ctx, now, limit)
}

// divided joins the nodes of an empty database whose users are divided.
func divided(t *testing.T, partitions store.Partitions) store.Store {
	t.Helper()
	url := emptyDatabase(t)
	t.Cleanup(func() { wantWhole(t, url) })
	s := openDivided(t, url, partitions)
	return patient{s.Ledger, s.Store}
}

// patient claims until everything due is claimed. What takes more than one partition comes later.
type patient struct {
	store.Store
	below interface{ AnyClaiming() bool }
}

func (p patient) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	const tries = 3 // without a result
	for vain := 0; err == nil && len(claims) < limit && vain < tries; {
		late := p.below.AnyClaiming()
		var more []store.Claim
		more, next, err = p.Store.Claim(ctx, now, limit-len(claims))
		claims = append(claims, more...)
		late = late || p.below.AnyClaiming()
		if !late && (next.IsZero() || next.After(now)) {
			break
		}
		if vain++; late || len(more) > 0 {
			vain = 0
		}
		time.Sleep(time.Millisecond)
	}
	return claims, next, err
}
