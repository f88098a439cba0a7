package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"posthaste/internal/store"
)

// filled is a directory in which a server has kept something.
func filled(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	server, url := start(t, data)
	for _, path := range []string{"/v2/publish/http://127.0.0.1:1/a?upstash-delay=1h", "/v2/schedules/http://127.0.0.1:1/b?upstash-cron=0+0+1+1+*"} {
		if status, body := call(t, http.MethodPost, url+path); status/100 != 2 {
			t.Fatalf("%s answers %d %s", path, status, body)
		}
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return data
}

func copyQuietly(ctx context.Context, from, to string) (Copied, error) {
	return Copy(ctx, Place{from}, Place{to}, 0, slog.New(slog.DiscardHandler), func(Copied) {})
}

func TestCopyIsServed(t *testing.T) {
	from, to := filled(t), filepath.Join(t.TempDir(), "new")
	copied, err := copyQuietly(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	if copied[store.ItemMessage] != 1 || copied[store.ItemEvent] != 1 || copied[store.ItemSchedule] != 1 {
		t.Errorf("copied %v, want a message, its log entry and a schedule among it", copied)
	}
	_, before := start(t, from)
	_, after := start(t, to)
	for _, path := range []string{"/v2/logs", "/v2/schedules"} {
		_, want := call(t, http.MethodGet, before+path)
		if _, got := call(t, http.MethodGet, after+path); got != want {
			t.Errorf("%s answers %s, where it was copied from %s", path, got, want)
		}
	}
}

// emptyStore is a directory with a store in which nothing is kept.
func emptyStore(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	s, err := openDirectory(Options{Data: data, Log: slog.New(slog.DiscardHandler)}, nil)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCopyIsRefused(t *testing.T) {
	from := filled(t)
	tests := map[string]struct{ from, to, want string }{
		"from nothing":                   {filepath.Join(t.TempDir(), "nowhere"), t.TempDir(), "from: stat"},
		"from a directory with no store": {t.TempDir(), t.TempDir(), "is not a data directory: it contains no database"},
		"to where something is kept":     {from, filled(t), "to: it is not empty: give a new directory, or an empty database"},
		"to where something else is":     {from, withFile(t), "to: it is not empty: give a new directory, or an empty database"},
		"from another database":          {"mysql://ann:secret@db/x", t.TempDir(), `from: scheme "mysql" is not supported`},
		"into another database":          {from, "postgress://ann:secret@db/x", `to: scheme "postgress" is not supported`},
		"of nothing":                     {emptyStore(t), filepath.Join(t.TempDir(), "new"), "from: there is nothing to copy"},
		"into itself":                    {from, from, "the data directory is in use"},
		"from a database without one":    {"postgres://127.0.0.1:1/none", t.TempDir(), "from: open the database"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := copyQuietly(t.Context(), test.from, test.to)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}

// withFile returns a directory that is not ours.
func withFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letters.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCopyThatWasBrokenOffIsNotServed(t *testing.T) {
	from, to := filled(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Copy(ctx, Place{from}, Place{to}, 0, slog.New(slog.DiscardHandler), func(Copied) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Copy = %v, want it cancelled", err)
	}
	_, err = New(t.Context(), Options{Listeners: []net.Listener{listen(t)}, Data: to, Tokens: []string{token}, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, store.ErrHalfCopied) {
		t.Errorf("New = %v, want %v", err, store.ErrHalfCopied)
	}
	if report, err := Check(to); err != nil || !slices.Equal(report.Problems, []string{store.ErrHalfCopied.Error()}) {
		t.Errorf("Check = %q, %v, want %v", report.Problems, err, store.ErrHalfCopied)
	}
	if _, err := copyQuietly(t.Context(), to, t.TempDir()); !errors.Is(err, store.ErrHalfCopied) {
		t.Errorf("Copy from there = %v, want %v", err, store.ErrHalfCopied)
	}
}

func TestSumsTellStoresApart(t *testing.T) {
	one := store.Item{Kind: store.ItemQueue, User: "ann", Key: []byte("k"), Value: []byte("v")}
	two := store.Item{Kind: store.ItemQueue, User: "ann", Key: []byte("l"), Value: []byte("w")}
	tests := map[string]struct {
		copy []store.Item
		want string // "" for no difference
	}{
		"the same":                  {[]store.Item{one, two}, ""},
		"in another order":          {[]store.Item{two, one}, ""},
		"one is missing":            {[]store.Item{one}, "the copy has 1 queues, but the source has 2"},
		"one is there twice":        {[]store.Item{one, one}, "some of the 2 queues differ"},
		"another value":             {[]store.Item{one, {Kind: two.Kind, User: "ann", Key: []byte("l"), Value: []byte("x")}}, "some of the 2 queues"},
		"another user":              {[]store.Item{one, {Kind: two.Kind, User: "bob", Key: []byte("l"), Value: []byte("w")}}, "some of the 2 queues"},
		"the key is in the value":   {[]store.Item{one, {Kind: two.Kind, User: "ann", Value: []byte("lw")}}, "some of the 2 queues"},
		"another kind besides both": {[]store.Item{one, two, {Kind: store.ItemResponse}}, "the copy has 1 cached responses, but the source has 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from, to := sums{}, sums{}
			from.add(one)
			from.add(two)
			for _, item := range test.copy {
				to.add(item)
			}
			err := from.compare(to)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("compare = %v, want %q", err, test.want)
			}
		})
	}
}
