package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/ledger"
	"posthaste/internal/store/lsm"
)

func TestRoundDisk(t *testing.T) {
	r := &round{tally: tally{accepted: 8}, warmedUp: 2, dir: t.TempDir()}
	data := filepath.Join(r.dir, dataDir)
	s, err := ledger.Over(lsm.Open(data, lsm.Options{Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	asLeft, err := directorySize(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.disk(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	compacted, err := directorySize(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []reading{
		measured("disk, as left", "B/message", float64(asLeft)/10),
		measured("disk, compacted", "B/message", float64(compacted)/10),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(reading{})); diff != "" {
		t.Error(diff)
	}
}

func TestRoundOfAProgramWithoutDataHasNoDisk(t *testing.T) {
	r := &round{tally: tally{accepted: 8}, dir: t.TempDir()}
	if got, err := r.disk(t.Context()); len(got) > 0 || err != nil {
		t.Errorf("disk = %v, %v, want nothing", got, err)
	}
}

func TestRoundRefusesToMeasureNothing(t *testing.T) {
	l, err := newLab(small(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	over := closedLoop{clients: 1, extent: extent{duration: -time.Second}}
	if _, err := l.round(t.Context(), l.relay(), over); !errors.Is(err, errNothing) {
		t.Errorf("round = %v, want %v", err, errNothing)
	}
}
