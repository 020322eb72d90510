// Command verdicts says what the field's tools say of an object: kstatus, which
// Flux and kubectl plugins use, and a health check in Lua, as Argo CD runs it.
//
// It reads one JSON document a line and answers with one line each:
//
//	{"object": {…}, "lua": "…"}  ->  {"kstatus": {…}, "argo": {…}}
//
// "lua" may be absent; then there is no "argo" in the answer. What a tool refuses
// stands under "error" in its part.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gojson "layeh.com/gopher-json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type question struct {
	Object map[string]any `json:"object"`
	Lua    string         `json:"lua"`
}

type verdict struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

type answer struct {
	Kstatus verdict  `json:"kstatus"`
	Argo    *verdict `json:"argo,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		var asked question
		// Argo CD and Flux read an object's numbers as its clients do: integers stay integers.
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		raw, err := json.Marshal(asked.Object)
		if err != nil {
			fail(err)
		}
		if err := object.UnmarshalJSON(raw); err != nil {
			fail(err)
		}
		told := answer{Kstatus: judge(object)}
		if asked.Lua != "" {
			health := check(asked.Lua, object)
			told.Argo = &health
		}
		if err := encoder.Encode(told); err != nil {
			fail(err)
		}
		out.Flush()
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func judge(object *unstructured.Unstructured) verdict {
	result, err := status.Compute(object)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	return verdict{Status: string(result.Status), Message: result.Message}
}

// check runs a health check with the libraries that Argo CD opens for one, and
// within its second.
func check(script string, object *unstructured.Unstructured) verdict {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return verdict{Error: err.Error()}
		}
	}
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(within)
	state.SetGlobal("obj", value(state, object.Object))
	if err := state.DoString(script); err != nil {
		return verdict{Error: err.Error()}
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return verdict{Error: fmt.Sprintf("a health check returns a table, not %s", state.Get(-1).Type())}
	}
	raw, err := gojson.Encode(table)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	var told verdict
	if err := json.Unmarshal(raw, &told); err != nil {
		return verdict{Error: err.Error()}
	}
	return told
}

// value is a part of an object as Lua sees it. Integers are numbers too.
func value(state *lua.LState, part any) lua.LValue {
	switch part := part.(type) {
	case bool:
		return lua.LBool(part)
	case string:
		return lua.LString(part)
	case int64:
		return lua.LNumber(part)
	case float64:
		return lua.LNumber(part)
	case []any:
		list := state.CreateTable(len(part), 0)
		for _, each := range part {
			list.Append(value(state, each))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(part))
		for key, each := range part {
			table.RawSetString(key, value(state, each))
		}
		return table
	default:
		return lua.LNil
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "verdicts:", err)
	os.Exit(1)
}
