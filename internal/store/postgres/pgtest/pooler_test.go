package pgtest

import "testing"

func TestFollowsStatements(t *testing.T) {
	for said, want := range map[string]bool{
		"PgBouncer 1.18.0\nlibevent 2.1.12-stable\n": false,
		"PgBouncer 1.20.1\n":                         false,
		"PgBouncer 1.21.0\n":                         true,
		"PgBouncer 1.24.1\nlibevent 2.1.12-stable\n": true,
		"PgBouncer 2.0.0\n":                          true,
	} {
		if got, err := followsStatements(said); err != nil || got != want {
			t.Errorf("%q follows: %t, %v, want %t", said, got, err, want)
		}
	}
	if _, err := followsStatements("bouncer"); err == nil {
		t.Error("something else is taken for a version")
	}
}
