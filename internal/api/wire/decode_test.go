package wire

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

func allowAll(string) error { return nil }

// TestOverrides checks what controls override, and that nothing else is kept.
func TestOverrides(t *testing.T) {
	given := http.Header{
		"Authorization":              {"Bearer secret"},
		"Content-Type":               {"application/json"},
		"Upstash-Retries":            {"3"},
		"Service-Retries":            {"0"},
		"Upstash-Delay":              {"1m"},
		"Upstash-Not-Before":         {"1700000000"},
		"Upstash-Flow-Control-Value": {"rate=1"},
		"Service-Forward-X":          {"a", "b"},
		"Upstash-Callback":           {"https://example.com/cb"},
		"Upstash-Callback-Retries":   {"1"},
		"Upstash-Telemetry-Sdk":      {"x"},
	}
	got, err := overridesOf(given)
	if err != nil {
		t.Fatal(err)
	}
	want := posthaste.Overrides{
		Delay:     time.Minute,
		NotBefore: time.Unix(1_700_000_000, 0),
		Settings: posthaste.Settings{
			Header:      http.Header{"X": {"a", "b"}},
			Retries:     new(int),
			FlowControl: posthaste.FlowControl{FlowLimit: posthaste.FlowLimit{Rate: 1}},
			Callback: &posthaste.Callback{
				URL:      "https://example.com/cb",
				Settings: posthaste.Settings{Retries: ptr(1)},
				Given:    http.Header{"Upstash-Callback-Retries": {"1"}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overrides differ (-want +got):\n%s", diff)
	}
}

// overridesOf returns the overrides in headers.
func overridesOf(header http.Header) (posthaste.Overrides, error) {
	c, err := Collect(header, nil)
	if err != nil {
		return posthaste.Overrides{}, err
	}
	return Decoder{CheckHost: allowAll}.Overrides(c)
}

func ptr[T any](value T) *T { return &value }

func TestOverridesRefuses(t *testing.T) {
	for name, header := range map[string]http.Header{
		"a value that no header has": {"Upstash-Label": {"a\nb"}},
		"a bad time":                 {"Upstash-Delay": {"x"}},
		"a bad setting":              {"Upstash-Retries": {"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := overridesOf(header); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestWithDefaults checks what becomes of defaults that were stored by an earlier
// version with other rules.
func TestWithDefaults(t *testing.T) {
	if _, err := (Controls{}).WithDefaults(http.Header{"Upstash-Label": {"a\nb"}}); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("error %v", err)
	}
	c, err := Controls{dialect: posthaste.DialectService}.WithDefaults(http.Header{"Upstash-Label": {"a"}})
	if err != nil || c.dialect != posthaste.DialectService || c.values["Label"].text() != "a" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTexts(t *testing.T) {
	tests := []struct{ json, want string }{
		{`"a"`, `["a"]`},
		{`"ä\n"`, `["ä\n"]`},
		{`17`, `["17"]`},
		{`1.50`, `["1.50"]`},
		{`1e400`, `["1e400"]`},
		{`true`, `["true"]`},
		{`null`, `[]`},
		{`[]`, `[]`},
		{`["a", 2, null, false]`, `["a","2","false"]`},
		{`{}`, `error x is {}, a string or an array of strings is expected`},
		{`[["a"]]`, `error x is [["a"]], a string or an array of strings is expected`},
		{`["a",{}]`, `error x is ["a",{}], a string or an array of strings is expected`},
	}
	for _, test := range tests {
		t.Run(test.json, func(t *testing.T) {
			got, err := Texts("x", json.RawMessage(test.json))
			text := "error " + errorText(err)
			if err == nil {
				encoded, _ := json.Marshal(got)
				text = string(encoded)
			}
			if text != test.want {
				t.Errorf("texts(%s) = %s, want %s", test.json, text, test.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
