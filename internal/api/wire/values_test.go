package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

func given(text string) control { return control{name: "Upstash-X", values: []string{text}} }

// Contract, messages 1.2 and U-81.
func TestParseLabels(t *testing.T) {
	var most []string
	for i := range posthaste.MaxLabels {
		most = append(most, fmt.Sprint("label ", i))
	}
	longest := strings.Repeat("x", posthaste.MaxLabelLen)
	tests := []struct {
		name string
		text string
		want []string
		err  string
	}{
		{"one", "a", []string{"a"}, ""},
		{"several with blanks", " a ,b b,c", []string{"a", "b b", "c"}, ""},
		{"repeated", "b,a,b", []string{"b", "a"}, ""},
		{"nothing but commas", " ,,", nil, ""},
		{"in UTF-8", "café", []string{"café"}, ""},
		{"in ISO 8859-1, as fetch sends it", "caf\xe9", []string{"café"}, ""},
		{"the longest", longest, []string{longest}, ""},
		{"too long", longest + "x", nil, `Upstash-X has the label "` + longest[:40] + `"…, a label has at most 256 bytes`},
		{"the most", strings.Join(most, ","), most, ""},
		{"the most, one of them twice", strings.Join(most, ",") + ",label 1", most, ""},
		{"too many", strings.Join(most, ",") + ",more", nil, "Upstash-X has more than the 100 labels that a message can have"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseLabels(given(test.text))
			checkParsed(t, test.want, got, test.err, err)
		})
	}
}

// Contract, messages 1.2 and decision 26.
func TestParseRedaction(t *testing.T) {
	const refused = "Upstash-X %q cannot be redacted, give body, header or header[Name]"
	tests := []struct {
		name string
		text string
		want posthaste.Redaction
		err  string
	}{
		{"nothing", "", posthaste.Redaction{}, ""},
		{"body", "body", posthaste.Redaction{Body: true}, ""},
		{"all headers", "header", posthaste.Redaction{AllHeaders: true}, ""},
		{"all headers, plural", "Headers", posthaste.Redaction{AllHeaders: true}, ""},
		{"one header", "header[x-key]", posthaste.Redaction{Headers: []string{"X-Key"}}, ""},
		{"one header, plural", "HEADERS[ x-key ]", posthaste.Redaction{Headers: []string{"X-Key"}}, ""},
		{"everything, with blanks", " body , header[A],, header[B] ", posthaste.Redaction{Body: true, Headers: []string{"A", "B"}}, ""},
		{"unknown", "body,url", posthaste.Redaction{}, fmt.Sprintf(refused, "url")},
		{"a part of the body", "body[x]", posthaste.Redaction{}, fmt.Sprintf(refused, "body[x]")},
		{"no name", "header[]", posthaste.Redaction{}, fmt.Sprintf(refused, "header[]")},
		{"not a name", "header[a b]", posthaste.Redaction{}, fmt.Sprintf(refused, "header[a b]")},
		{"not closed", "header[a", posthaste.Redaction{}, fmt.Sprintf(refused, "header[a")},
		{"something behind", "header[a]b", posthaste.Redaction{}, fmt.Sprintf(refused, "header[a]b")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseRedaction(given(test.text))
			checkParsed(t, test.want, got, test.err, err)
		})
	}
}

// Contract, messages 1.2 and U-6.
func TestParseFlowLimit(t *testing.T) {
	const day = 24 * time.Hour
	const accepted = "a list such as parallelism=2, rate=10, period=1m, each given once, " +
		"with numbers of at least 1 and a period of whole seconds up to 7d"
	tests := []struct {
		text string
		want posthaste.FlowLimit // nothing if the text is refused
	}{
		{"parallelism=3", posthaste.FlowLimit{Parallelism: 3}},
		{"rate=3", posthaste.FlowLimit{Rate: 3}},
		{"period=1", posthaste.FlowLimit{Period: time.Second}},
		{"parallelism=1, rate=2, period=1d", posthaste.FlowLimit{Parallelism: 1, Rate: 2, Period: day}},
		{"period = 7d ,rate= 2", posthaste.FlowLimit{Rate: 2, Period: 7 * day}},
		{"", posthaste.FlowLimit{}},
		{"3", posthaste.FlowLimit{}},
		{"speed=3", posthaste.FlowLimit{}},
		{"Rate=3", posthaste.FlowLimit{}},
		{"rate", posthaste.FlowLimit{}},
		{"rate=", posthaste.FlowLimit{}},
		{"rate=0", posthaste.FlowLimit{}},
		{"rate=-1", posthaste.FlowLimit{}},
		{"rate=1.5", posthaste.FlowLimit{}},
		{"rate=99999999999", posthaste.FlowLimit{}},
		{"rate=1,rate=1", posthaste.FlowLimit{}},
		{"rate=1,", posthaste.FlowLimit{}},
		{"parallelism=0", posthaste.FlowLimit{}},
		{"parallelism=1,parallelism=2", posthaste.FlowLimit{}},
		{"period=0", posthaste.FlowLimit{}},
		{"period=1.5s", posthaste.FlowLimit{}},
		{"period=7d1s", posthaste.FlowLimit{}},
		{"period=soon", posthaste.FlowLimit{}},
		{"period=1s,period=1s", posthaste.FlowLimit{}},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			wantErr := ""
			if test.want == (posthaste.FlowLimit{}) {
				wantErr = fmt.Sprintf("Upstash-X %q is not %s", strings.TrimSpace(test.text), accepted)
			}
			got, err := parseFlowLimit(given(test.text))
			checkParsed(t, test.want, got, wantErr, err)
		})
	}
}

// checkParsed compares what a parser returned with what it should have, where a
// sentence stands for an Error with CodeInvalid.
func checkParsed(t *testing.T, want, got any, wantErr string, err error) {
	t.Helper()
	switch {
	case wantErr == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case wantErr == "":
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("differs (-want +got):\n%s", diff)
		}
	case err == nil || err.Error() != wantErr || posthaste.ErrorCode(err) != posthaste.CodeInvalid:
		t.Errorf("error %v, want invalid: %s", err, wantErr)
	}
}
