package app

import (
	"testing"
	"time"
)

// TestAbout checks that users are told what is in force for them.
func TestAbout(t *testing.T) {
	tell := about(Options{
		Keep:       Keep{Logs: time.Hour, Bytes: 7},
		KeepFor:    map[string]Keep{"own": {DLQ: time.Minute}},
		MaxTimeout: 2 * time.Second, MaxRetries: 5,
	})
	if got := tell("any"); got.Version != Version || got.Retention.Log != 3_600_000 || got.Retention.Bytes != 7 || got.Limits.Timeout != 2000 || got.Limits.Retries != 5 {
		t.Errorf("a user is told %+v", got)
	}
	if got := tell("own").Retention; got.Log != 0 || got.DeadLetters != 60_000 || got.Bytes != 0 {
		t.Errorf("a user with settings of their own is told %+v", got)
	}
}
