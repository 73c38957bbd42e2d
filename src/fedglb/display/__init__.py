"""How far a run is and what came of it, for notebooks and terminals."""
