package store_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

func TestPortion(t *testing.T) {
	tests := []struct {
		name string
		size int
		took time.Duration
		want bool
	}{
		{"nothing yet", 0, 0, false},
		{"not much", store.BatchBytes - 1, store.BatchTime - 1, false},
		{"many bytes", store.BatchBytes, 0, true},
		{"a long time", 0, store.BatchTime, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := store.NewBatchLimit()
				p.Take(test.size)
				time.Sleep(test.took)
				if got := p.Full(); got != test.want {
					t.Errorf("full is %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestBehind(t *testing.T) {
	ids := []posthaste.DeadLetterID{4, 2, 7}
	tests := []struct {
		name string
		done []posthaste.DeadLetterID
		want []posthaste.DeadLetterID
	}{
		{"none was there", nil, nil},
		{"the first", []posthaste.DeadLetterID{4}, []posthaste.DeadLetterID{2, 7}},
		{"the second alone", []posthaste.DeadLetterID{2}, []posthaste.DeadLetterID{7}},
		{"all", ids, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := store.IDsAfter(ids, test.done); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
