package postgres

import "testing"

func TestBlocksFor(t *testing.T) {
	tests := map[string]struct{ missing, events, blocks, want int }{
		"an idle user's":          {95, 6, 6, 99},
		"a busy user's":           {640, 320, 5, 14},
		"nothing is missing":      {-5, 320, 5, blocksAtLeast},
		"nothing was found":       {100, 0, 0, 104},
		"more than is read once":  {5000, 5, 5, postingsAtMost},
		"more events than blocks": {100, 7, 4, 104},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := blocksFor(test.missing, test.events, test.blocks); got != test.want {
				t.Errorf("blocksFor(%d, %d, %d) = %d, want %d", test.missing, test.events, test.blocks, got, test.want)
			}
		})
	}
}
