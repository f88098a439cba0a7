package postgres

import (
	"testing"

	"posthaste"
)

func TestAScanGoesOnBehindABlock(t *testing.T) {
	block := []posthaste.Event{{Position: 10}, {Position: 12}, {Position: 17}}
	for name, c := range map[string]struct {
		oldestFirst bool
		want        posthaste.Position
	}{
		"oldest first": {true, 18},
		"newest first": {false, 9},
	} {
		t.Run(name, func(t *testing.T) {
			if got := afterBlock(block, c.oldestFirst); got != c.want {
				t.Errorf("behind = %d, want %d", got, c.want)
			}
		})
	}
}
