package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

var errDamaged = errors.New("a record is damaged")

// damagedStore is a store that tells of damage beside what it hands out, as much of it at
// once as atOnce says.
type damagedStore struct {
	store.Store
	atOnce int
	claims *int // calls of Claim
}

func (s damagedStore) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	*s.claims++
	claims, next, err := s.Store.Claim(ctx, now, min(s.atOnce, limit))
	return claims, next, errors.Join(err, errDamaged)
}

func (s damagedStore) DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) ([]*posthaste.Schedule, time.Time, error) {
	due, next, err := s.Store.DueSchedules(ctx, now, limit, except...)
	return due, next, errors.Join(err, errDamaged)
}

func inDamagedWorld(t *testing.T, atOnce int, scenario func(w *world, claims *int)) {
	t.Helper()
	var claims int
	front := func(s store.Store) store.Store { return damagedStore{s, atOnce, &claims} }
	options := engine.Options{Logger: slog.New(slog.DiscardHandler)}
	inWorldOn(t, front, answers(ok), options, func(w *world) { scenario(w, &claims) })
}

// What is due beside something that cannot be read begins when it is due.
func TestMessagesBesideDamageBeginOnTime(t *testing.T) {
	inDamagedWorld(t, 1, func(w *world, _ *int) {
		first := w.publish(engine.Publication{})
		later := w.publish(engine.Publication{Delay: 300 * time.Millisecond})
		w.pass(time.Minute)
		w.wantLog(first, "0s CREATED", "0s ACTIVE", "10ms DELIVERED")
		w.wantLog(later, "0s CREATED next 300ms", "300ms ACTIVE", "310ms DELIVERED")
	})
}

// A store with nothing but damage is asked once a second.
func TestNothingButDamage(t *testing.T) {
	inDamagedWorld(t, 0, func(w *world, claims *int) {
		w.publish(engine.Publication{})
		w.pass(10500 * time.Millisecond)
		if *claims > 12 {
			w.t.Errorf("%d claims in 10 s, want one a second", *claims)
		}
		w.wantCancelled(1, w.ids...)
	})
}

// What a store cannot hand out is logged once a second, however often others wake the loop.
func TestDamageIsLoggedOnceASecond(t *testing.T) {
	var log bytes.Buffer
	var claims int
	front := func(s store.Store) store.Store { return damagedStore{s, 100, &claims} }
	inWorldOn(t, front, answers(ok), engine.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(w *world) {
		for range 100 {
			w.publish(engine.Publication{})
			w.pass(50 * time.Millisecond)
		}
	})
	if lines := strings.Count(log.String(), "claim.failed"); claims < 100 || lines < 4 || lines > 7 {
		t.Errorf("%d lines about %d claims in 5 s, want one a second", lines, claims)
	}
}

func TestSchedulesBesideDamageTickOnTime(t *testing.T) {
	inDamagedWorld(t, 100, func(w *world, _ *int) {
		w.schedule(user, "whole", "* * * * *")
		w.pass(time.Minute)
		w.wantTicked(user, "whole", time.Minute)
	})
}
