package pgtest

import "testing"

func TestTracksStatements(t *testing.T) {
	for version, want := range map[string]bool{
		"PgBouncer 1.18.0\nlibevent 2.1.12-stable\n": false,
		"PgBouncer 1.20.1\n":                         false,
		"PgBouncer 1.21.0\n":                         true,
		"PgBouncer 1.24.1\nlibevent 2.1.12-stable\n": true,
		"PgBouncer 2.0.0\n":                          true,
	} {
		if got := tracksStatements(t, version); got != want {
			t.Errorf("%q tracks: %t, want %t", version, got, want)
		}
	}
}
