package postgres_test

import (
	"testing"

	"posthaste"
	"posthaste/internal/store/postgres"
)

// Somebody keeps the turns of many users of whose messages a dead node had some. A node
// joins meanwhile, and gets at once what the dead one had of somebody else, and theirs when
// the turns are over.
func TestTurnsThatAreKeptHoldUpNoLeasesOfOthers(t *testing.T) {
	url := emptyDatabase(t)
	dead := open(t, url)
	var theirs []*posthaste.Message
	for _, user := range []string{"a", "b", "c", "d", "e", "f"} {
		theirs = append(theirs, acceptOf(t, dead, user))
	}
	other := acceptOf(t, dead, "z")
	if claims, _, err := dead.Claim(t.Context(), start, 10); err != nil || len(claims) != len(theirs)+1 {
		t.Fatalf("Claim = %d claims, %v, want %d", len(claims), err, len(theirs)+1)
	}
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = '-infinity'`)
	var over []func()
	for _, m := range theirs {
		over = append(over, keepLocked(t, url, m.User))
	}
	s := openWith(t, url, postgres.Options{})
	wantClaimed(t, s, other)
	for _, over := range over {
		over()
	}
	wantClaimed(t, s, theirs...)
}
