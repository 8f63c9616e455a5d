// Contains the precompiled headers of all test programs.
