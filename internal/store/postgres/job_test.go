package postgres_test

import (
	"testing"
	"time"
)

func TestAJobIsOneNodesAtATime(t *testing.T) {
	url := emptyDatabase(t)
	here, there := open(t, url), open(t, url)
	steps := []struct {
		name   string
		before func()
		hold   func() (bool, error)
		want   bool
	}{
		{"it is free", nil, func() (bool, error) { return here.TryLease(t.Context(), "job", time.Hour) }, true},
		{"its holder holds it for longer", nil, func() (bool, error) { return here.TryLease(t.Context(), "job", time.Hour) }, true},
		{"another node does not get it", nil, func() (bool, error) { return there.TryLease(t.Context(), "job", time.Hour) }, false},
		{"another job is another", nil, func() (bool, error) { return there.TryLease(t.Context(), "other", time.Hour) }, true},
		{
			"its time is over", func() { execute(t, url, `UPDATE posthaste.jobs SET expires_at = clock_timestamp() WHERE job = 'job'`) },
			func() (bool, error) { return there.TryLease(t.Context(), "job", time.Hour) }, true,
		},
		{"it has changed hands", nil, func() (bool, error) { return here.TryLease(t.Context(), "job", time.Hour) }, false},
		{
			"its holder has left", func() {
				if err := there.Close(); err != nil {
					t.Fatal(err)
				}
			}, func() (bool, error) { return here.TryLease(t.Context(), "job", time.Hour) }, true,
		},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		if got, err := step.hold(); err != nil || got != step.want {
			t.Fatalf("%s: TryLease = %t, %v; want %t", step.name, got, err, step.want)
		}
	}
}
