package lint

// Rule is what a finding breaks.
type Rule struct {
	// Code stays the same. Name says what it is about.
	Code, Name string
	// Title is a sentence, and Why explains how to mend a finding.
	Title, Why string
	// Bad breaks the rule, and Good does not.
	Bad, Good string
	// Advice is set if a finding is most likely a mistake. The admission webhook warns of it.
	Advice bool
	// Fails is set if the script fails, or does something else than it says, where it breaks the rule.
	Fails bool
	// Off is set if the rule is off unless somebody turns it on.
	Off bool
}

// Rules are all rules, by their codes.
var Rules = []*Rule{
	undefinedGlobal, notAvailable, unknownMember, deprecatedMember, unusedLocal, unusedParameter, unusedGlobal,
	globalInFunction, shadowing, unreachable, wrongArguments, pairsOrder, heavyPattern, unknownConfig, nullMember,
}

// Find returns the rule with the code or the name; nil if there is none.
func Find(code string) *Rule {
	for _, r := range Rules {
		if r.Code == code || r.Name == code {
			return r
		}
	}
	return nil
}

var (
	undefinedGlobal = &Rule{
		Code: "W001", Name: "undefined-global", Advice: true, Fails: true,
		Title: "The script reads a global variable that nothing defines.",
		Why:   "Its value is nil. Mostly the name is misspelled, or a local variable is out of scope. Define the variable, or correct the name.",
		Bad:   "function handle(request)\n  return request.path or reqest\nend",
		Good:  "function handle(request)\n  return request.path\nend",
	}
	notAvailable = &Rule{
		Code: "W002", Name: "not-available", Advice: true, Fails: true,
		Title: "The script uses something of Lua, OpenResty or Redis that scripts here do not have.",
		Why:   "Scripts have no files, network, processes or code loading. The message names a replacement if there is one.",
		Bad:   "function handle(request)\n  print(request.path)\nend",
		Good:  "function handle(request)\n  log.info(request.path)\nend",
	}
	unknownMember = &Rule{
		Code: "W003", Name: "unknown-member", Advice: true, Fails: true,
		Title: "A library does not have the function that the script calls.",
		Why:   "The call fails with an error. Correct the name: the message suggests a similar one.",
		Bad:   "function handle(request)\n  log.inof(request.path)\nend",
		Good:  "function handle(request)\n  log.info(request.path)\nend",
	}
	deprecatedMember = &Rule{
		Code: "W004", Name: "deprecated", Advice: true,
		Title: "The script uses a function that Lua 5.1 replaced.",
		Why:   "Use what the message names.",
		Bad:   "function handle(list)\n  return table.getn(list)\nend",
		Good:  "function handle(list)\n  return #list\nend",
	}
	unusedLocal = &Rule{
		Code: "W005", Name: "unused-local",
		Title: "Nothing reads a local variable.",
		Why:   "Remove it, or let its name begin with _ if it must be there.",
		Bad:   "function handle(request)\n  local path = request.path\n  return request.host\nend",
		Good:  "function handle(request)\n  local _, path = request.host, request.path\n  return path\nend",
	}
	unusedParameter = &Rule{
		Code: "W006", Name: "unused-parameter", Off: true,
		Title: "Nothing reads a parameter of a function, and none that comes after it.",
		Why:   "Remove it, or let its name begin with _. The rule is off: parameters often document what a caller passes.",
		Bad:   "function handle(request, options)\n  return request.path\nend",
		Good:  "function handle(request)\n  return request.path\nend",
	}
	unusedGlobal = &Rule{
		Code: "W007", Name: "unused-global",
		Title: "The script assigns to a global variable that nothing reads.",
		Why:   "Remove it. If it is a function that should run, check the entrypoint.",
		Bad:   "function helper() end\nfunction handle() end",
		Good:  "local function helper() end\nfunction handle()\n  helper()\nend",
	}
	globalInFunction = &Rule{
		Code: "W008", Name: "global-in-function",
		Title: "A function assigns to a global variable that the chunk does not define.",
		Why:   "Globals are new in each call, so the value is lost after the call. Mostly the word local is missing.",
		Bad:   "function handle(request)\n  path = request.path\n  return path\nend",
		Good:  "function handle(request)\n  local path = request.path\n  return path\nend",
	}
	shadowing = &Rule{
		Code: "W009", Name: "shadowing",
		Title: "A local variable has the name of another one, or of a library, that is in scope.",
		Why:   "The other one cannot be reached until the block ends. Choose another name.",
		Bad:   "function handle(request)\n  for _, request in ipairs(request.list) do\n    log.info(request)\n  end\nend",
		Good:  "function handle(request)\n  for _, item in ipairs(request.list) do\n    log.info(item)\n  end\nend",
	}
	unreachable = &Rule{
		Code: "W010", Name: "unreachable",
		Title: "Nothing reaches a statement.",
		Why:   "The statement before it always returns, breaks, fails or loops for ever. Remove the statement, or correct the condition.",
		Bad:   "function handle(request)\n  if request.path then return 1 else return 2 end\n  log.info(\"done\")\nend",
		Good:  "function handle(request)\n  if request.path then return 1 end\n  log.info(\"no path\")\nend",
	}
	wrongArguments = &Rule{
		Code: "W011", Name: "wrong-arguments", Advice: true, Fails: true,
		Title: "A call of a library function has too few or too many arguments, or one of another type.",
		Why:   "The function fails, or ignores the argument. The message shows the parameters of the function.",
		Bad:   "function handle(request)\n  return string.rep(request.path)\nend",
		Good:  "function handle(request)\n  return string.rep(request.path, 2)\nend",
	}
	pairsOrder = &Rule{
		Code: "W012", Name: "pairs-order",
		Title: "A result depends on the order in which pairs returns the members of a table.",
		Why:   "The order is that in which the members were first set, and of an argument that in which the caller wrote them. Sort the result, or iterate with ipairs.",
		Bad:   "function handle(request)\n  local names = {}\n  for name in pairs(request.headers) do\n    names[#names + 1] = name\n  end\n  return names\nend",
		Good:  "function handle(request)\n  local names = {}\n  for name in pairs(request.headers) do\n    names[#names + 1] = name\n  end\n  table.sort(names)\n  return names\nend",
	}
	heavyPattern = &Rule{
		Code: "W013", Name: "heavy-pattern",
		Title: "A pattern can take time that is quadratic in the length of the text, or worse.",
		Why:   "Each of several repetitions that match the same text multiplies the work. Anchor the pattern with ^, repeat a smaller class such as [^/], or use re, whose time is linear.",
		Bad:   "function handle(request)\n  return request.path:match(\"(.*)/(.*)/(.*)\")\nend",
		Good:  "function handle(request)\n  return request.path:match(\"^([^/]*)/([^/]*)/(.*)$\")\nend",
	}
	unknownConfig = &Rule{
		Code: "W014", Name: "unknown-config",
		Title: "The script reads a member of config that spec.config does not have.",
		Why:   "Its value is nil. Add the member to spec.config, correct the name, or give a default: config.limit or 10.",
		Bad:   "function handle(request)\n  return request.body:sub(1, config.limt)\nend",
		Good:  "function handle(request)\n  return request.body:sub(1, config.limit or 10)\nend",
	}
	nullMember = &Rule{
		Code: "W015", Name: "null-member",
		Title: "The script compares a member of an object with json.null.",
		Why:   "A member that is null in the JSON reads as nil. Compare with nil. Elements of arrays are json.null.",
		Bad:   "function handle(request)\n  return request.body == json.null\nend",
		Good:  "function handle(request)\n  return request.body == nil\nend",
	}
)
